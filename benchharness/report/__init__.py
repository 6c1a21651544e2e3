"""What people and programs are shown, made from stored records."""
